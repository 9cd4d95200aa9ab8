#!/bin/sh
# Sends the mail to the person on standard input. Its output is the result.
to=$(cat)
[ "$to" != nobody ] || exit 1
echo "sent to $to" >&2
echo "sent to $to"
