#!/bin/sh
# Queues two mails, and waits for a third. Use: sh client.sh (needs the program gearman)
ask="gearman -h ${GEARMAN_HOST:-127.0.0.1} -p ${GEARMAN_PORT:-4730} -f shell_send"
$ask -b alice
$ask -b bob
$ask nobody || echo failed
