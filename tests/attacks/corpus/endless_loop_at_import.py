"""Never comes back from import.

Kind: Never answering
Relies on: an import without a time limit
Breaks naive: hang
"""

while True:
    pass
