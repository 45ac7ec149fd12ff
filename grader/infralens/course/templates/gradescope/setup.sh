#!/usr/bin/env bash
# Run once, when Gradescope builds the image. Choose a base image with Python 3.11 or newer.
set -euo pipefail
root=${AUTOGRADER_ROOT:-/autograder}
# For a torch without CUDA, which is gigabytes smaller, export PIP_EXTRA_INDEX_URL here.
export DEBIAN_FRONTEND=noninteractive

apt-get update -qq
apt-get install -y -qq python3 python3-venv
apt-get install -y -qq bubblewrap ||
    echo "bubblewrap cannot be installed: submissions will be graded at process level."
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "Python 3.11 or newer is needed: choose a newer base image." >&2
    exit 1
}
python3 -m venv "$root/venv"
python=$root/venv/bin/python
"$python" -m pip install --quiet -r "$root/source/requirements.txt"
site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "$root/source/kit" > "$site/infralens.pth"
"$python" -P -m infralens.course.gradescope_run --level # the log of the build keeps it
