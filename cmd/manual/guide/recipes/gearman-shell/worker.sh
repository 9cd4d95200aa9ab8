#!/bin/sh
# Runs send.sh for each job until it is stopped. Use: sh worker.sh (needs the program gearman)
exec gearman -w -h "${GEARMAN_HOST:-127.0.0.1}" -p "${GEARMAN_PORT:-4730}" -f shell_send -- sh send.sh
