#!/usr/bin/env bash
# Posts $COMMENT on pull request $NUMBER of $REPOSITORY, or replaces the comment that an earlier run posted there.
# Needs `gh`, which GitHub's runners have, and its $GH_TOKEN.
set -euo pipefail

marker=$(head -n 1 "$COMMENT")
comments="repos/$REPOSITORY/issues/$NUMBER/comments"
earlier=$(gh api --paginate "$comments" --jq ".[] | select(.body | startswith(\"$marker\")) | .id" | head -n 1)
if [ -n "$earlier" ]; then
    gh api --silent --method PATCH "repos/$REPOSITORY/issues/comments/$earlier" --field "body=@$COMMENT"
else
    gh api --silent --method POST "$comments" --field "body=@$COMMENT"
fi
