<?php
// What the scripts of PHP's pheanstalk share.

function check(string $what, $got, $want): void
{
    if ($got !== $want) {
        fwrite(STDERR, "$what: got " . var_export($got, true) . ', want ' . var_export($want, true) . "\n");
        exit(1);
    }
}

set_error_handler(function (int $level, string $message) {
    if (!(error_reporting() & $level) || $level === E_DEPRECATED || $level === E_USER_DEPRECATED) {
        return true; // the library is older than this PHP
    }
    fwrite(STDERR, "$message\n");
    exit(1);
});
