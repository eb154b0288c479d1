#!/usr/bin/env bash
# Check topologies, compare them with what they were before the change, and report both where reviewers look.
# The GitHub action and the GitLab job run this; it runs as well anywhere else, without a comment.
#
#   HASHSTAR_FILES          files and folders, one on each line                    [.]
#   HASHSTAR_AGAINST        revision to compare with   [what the request is merged into, or the push was made on]
#   HASHSTAR_CHECK_FAIL_ON  findings that fail: error, warning, note               [error]
#   HASHSTAR_DIFF_FAIL_ON   differences that fail: any, lost, gained, never        [lost]
#   HASHSTAR_COMMENT        whether to comment on the pull or merge request        [true]
#   HASHSTAR_TOKEN          token by which to comment                              [none: no comment]
#   HASHSTAR_TITLE          name of the comment, if several jobs write one         [hashstar]
#   HASHSTAR_REPORTS        folder for the reports                                 [hashstar-reports]
#   HASHSTAR_BASE           commit that GitHub's event names as the one before     [none]
#
# Exit code: the greater one of hashstar check and hashstar diff. A comment that cannot be written is a warning.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
reports=${HASHSTAR_REPORTS:-hashstar-reports}
mapfile -t files < <(printf '%s\n' "${HASHSTAR_FILES:-.}" | sed '/^[[:space:]]*$/d')
python=$(command -v python3 || command -v python)
mkdir -p "$reports"

warn() {
    if [ -n "${GITHUB_ACTIONS:-}" ]; then echo "::warning title=hashstar::$1"; else echo "hashstar: warning: $1" >&2; fi
}

# Print the commit that the change was made on, and whether it must be there; nothing if there is none.
find_base() {
    local base=''
    if [ -n "${HASHSTAR_AGAINST:-}" ]; then
        echo "$HASHSTAR_AGAINST required"
        return
    elif [ "${GITHUB_EVENT_NAME:-}" = pull_request ] && [ "$(git rev-parse HEAD)" = "${GITHUB_SHA:-}" ]; then
        # Checked out is the merge that GitHub made; its first parent is what the pull request is merged into.
        base=$(git cat-file commit HEAD | awk '/^$/ { body = 1 } $1 == "parent" && !body && !found { print $2; found = 1 }')
    elif [ -n "${CI_MERGE_REQUEST_IID:-}" ]; then
        # The first is set where checked out is the merge that GitLab made.
        base=${CI_MERGE_REQUEST_TARGET_BRANCH_SHA:-${CI_MERGE_REQUEST_DIFF_BASE_SHA:-}}
    else
        base=${HASHSTAR_BASE:-${CI_COMMIT_BEFORE_SHA:-}}
    fi
    case $base in
        '' | *[!0]*) ;;
        *) base='' ;; # all zeros: the first push of a branch
    esac
    case ${GITHUB_EVENT_NAME:-}${CI_MERGE_REQUEST_IID:+merge_request} in
        pull_request* | merge_request | merge_group) [ -z "$base" ] || echo "$base required" ;;
        *) [ -z "$base" ] || echo "$base optional" ;; # of a push; after a forced one it may be gone
    esac
}

# Fetch a commit unless the clone, which may be shallow, has it.
fetch() {
    case $1 in -*) return 1 ;; esac # an option to git
    git rev-parse --verify --quiet "$1^{commit}" >/dev/null || git fetch --quiet --no-tags --depth=1 origin "$1" 2>/dev/null
}

status=0
outcome() { [ "$1" -le "$status" ] || status=$1; }

rm -f "$reports"/{annotations.txt,check.txt,diff.md,errors.txt}
form=()
if [ -n "${GITHUB_ACTIONS:-}" ]; then
    form=(--format github --output "$reports/annotations.txt")
elif [ -n "${GITLAB_CI:-}" ]; then
    form=(--format gitlab --output "$reports/gl-code-quality-report.json")
fi
checked=0
hashstar check "${form[@]}" --fail-on "${HASHSTAR_CHECK_FAIL_ON:-error}" -- "${files[@]}" \
    >"$reports/check.txt" 2>"$reports/errors.txt" || checked=$?
cat "$reports/check.txt"
cat "$reports/errors.txt" >&2
[ ! -e "$reports/annotations.txt" ] || cat "$reports/annotations.txt"
outcome "$checked"

read -r base needed < <(find_base) || true
if [ -z "${base:-}" ]; then
    echo "hashstar: there is no commit before this change to compare with"
elif ! fetch "$base"; then
    if [ "$needed" = required ]; then
        warn "commit $base cannot be fetched; let the clone have it (fetch-depth: 0, GIT_DEPTH: 0)"
        outcome 2
    else
        warn "the commit before the push, $base, cannot be fetched: nothing was compared"
    fi
else
    against=(--against "$base")
    # Where the head of a pull request is checked out, what others have merged meanwhile is not its change.
    if [ "${GITHUB_EVENT_NAME:-}" != push ] && git merge-base "$base" HEAD >/dev/null 2>&1; then
        against+=(--merge-base)
    fi
    compared=0
    hashstar diff "${against[@]}" --format markdown --fail-on "${HASHSTAR_DIFF_FAIL_ON:-lost}" -- "${files[@]}" \
        >"$reports/diff.md" || compared=$?
    cat "$reports/diff.md"
    outcome "$compared"
fi

"$python" "$here/comment.py" "$reports" "$checked" || warn "the comment was not written; the job's summary and reports have it"
exit "$status"
