// A page that is opened as a file may not read others: the search then shows titles, no excerpts.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
