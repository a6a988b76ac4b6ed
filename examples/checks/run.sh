#!/bin/sh
# Heals a Python, a Node and a Rust project with known fixes and no model; nothing is downloaded.
#
#     examples/checks/run.sh [path of salve]
#
# Works on copies in a new directory, which is named at the end.
set -eu

salve=${1:-salve}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
# What is learned here is no business of the user's own memory.
export XDG_DATA_HOME="$work/data"

# Lays out a copy of one project as a repository of its own.
enter() {
    printf '\n== %s\n' "$1"
    cp -R "$here/$1" "$work/$1"
    cd "$work/$1"
    git init -q
    git add -A
    git -c user.name=example -c user.email=example@example.com commit -qm 'as it is'
}

enter python
# A patch that is known to help: the failure's own output says which failure it is for.
python3 -m unittest 2>&1 | "$salve" memory learn --patch "$here/python.patch"
"$salve" heal -- python3 -m unittest

enter node
# The playbook knows that what is missing is built by the project itself.
"$salve" heal -- npm test

enter rust
# The playbook brings a lockfile into agreement with its manifest, and moves nothing else.
"$salve" heal -- cargo test --quiet --locked --offline

printf '\nAll three are green; what was done is told by `salve show` in the directories below %s\n' "$work"
