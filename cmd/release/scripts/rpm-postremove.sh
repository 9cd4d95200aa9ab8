# RPM's %postun, which on an upgrade is the old package's and comes last: a server that runs
# is restarted, with all jobs in its journal and clients waiting at its sockets. The journal
# stays, as RPM's packages leave data.
systemctl daemon-reload >/dev/null 2>&1 || :
if [ "$1" -ge 1 ]; then
	systemctl try-restart polystalkd.service >/dev/null 2>&1 || :
fi
