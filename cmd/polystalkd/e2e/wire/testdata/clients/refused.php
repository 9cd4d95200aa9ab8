<?php
// PHP's pheanstalk without rights on the tube theirs. Use: php refused.php HOST PORT
require 'Pheanstalk/autoload.php';

use Pheanstalk\Exception\ServerException;
use Pheanstalk\Pheanstalk;

set_error_handler(function (int $level, string $message) {
    if (!(error_reporting() & $level) || $level === E_DEPRECATED || $level === E_USER_DEPRECATED) {
        return true; // the library is older than this PHP
    }
    fwrite(STDERR, "$message\n");
    exit(1);
});

function refused(string $what, callable $f): void
{
    try {
        $f();
    } catch (ServerException $e) {
        return;
    }
    fwrite(STDERR, "$what: no error\n");
    exit(1);
}

$client = Pheanstalk::create($argv[1], (int) $argv[2]);
refused('put', fn () => $client->useTube('theirs')->put("use mine-php\r\nput 0 0 60 1\r\nx"));
$client->useTube('mine-php')->put('first');
refused('kick', fn () => $client->kick(1));
refused('stats', fn () => $client->stats());
refused('stats-tube', fn () => $client->statsTube('theirs'));
refused('reserve', fn () => $client->reserveWithTimeout(0));
refused('watch', fn () => $client->watch('theirs'));

$client = Pheanstalk::create($argv[1], (int) $argv[2]);
$client->watchOnly('mine-php');
$job = $client->reserve();
if ($job->getData() !== 'first') {
    exit(1);
}
$client->delete($job);
echo "ok\n";
