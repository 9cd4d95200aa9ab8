<?php
// PHP's pheanstalk: a job's whole life. Use: php whole_life.php HOST PORT,
// with tls:// before the host for TLS
require 'Pheanstalk/autoload.php';

use Pheanstalk\Exception\ServerException;
use Pheanstalk\JobId;
use Pheanstalk\Pheanstalk;
use Pheanstalk\SocketFactory;

require __DIR__ . '/check.php';

if (str_starts_with($argv[1], 'tls://')) {
    $client = Pheanstalk::createWithFactory(new SocketFactory($argv[1], (int) $argv[2], 10, SocketFactory::FSOCKOPEN));
} else {
    $client = Pheanstalk::create($argv[1], (int) $argv[2]);
}
$client->useTube('php.life');
check('used', $client->listTubeUsed(true), 'php.life');
$client->watchOnly('php.life');
check('watched', $client->listTubesWatched(true), ['php.life']);
check('nothing ready', $client->reserveWithTimeout(0), null);

$id = $client->put('first', 10, 0, 60)->getId();
check('peek ready', $client->peekReady()->getData(), 'first');
check('peek delayed', $client->peekDelayed(), null);

$job = $client->reserve();
check('reserve', [$job->getId(), $job->getData()], [$id, 'first']);
$client->touch($job);
$stats = $client->statsJob($job);
check('state', $stats['state'], 'reserved');
check('ttr', (int) $stats['ttr'], 60);
check('tube', trim($stats['tube'], '"'), 'php.life'); // it keeps YAML's quotes

$client->release($job, 5, 100);
check('delayed', $client->statsJob($job)['state'], 'delayed');
check('peek delayed', $client->peekDelayed()->getId(), $id);
$client->kickJob($job);

$job = $client->reserveWithTimeout(10);
check('kicks', (int) $client->statsJob($job)['kicks'], 1);
$client->bury($job, 3);
check('peek buried', $client->peekBuried()->getId(), $id);
check('buried', (int) $client->statsTube('php.life')['current-jobs-buried'], 1);
check('kick', $client->kick(10), 1);

$client->pauseTube('php.life', 100);
check('paused', $client->reserveWithTimeout(0), null);
$client->resumeTube('php.life');
$job = $client->reserve();
check('after the pause', $job->getId(), $id);

$binary = implode('', array_map('chr', range(0, 255))) . "\r\n";
$second = $client->put($binary);
check('binary body', $client->peek($second)->getData(), $binary);

$client->delete($job);
$client->delete($second);
try {
    $client->delete(new JobId($id));
    check('delete again', 'deleted', 'not found');
} catch (ServerException $e) {
    check('delete again', get_class($e), 'Pheanstalk\\Exception\\JobNotFoundException');
}

check('tubes', in_array('php.life', $client->listTubes(), true), true);
$client->ignore('nosuch');
check('ready', (int) $client->stats()['current-jobs-ready'], 0);
$client->watch('default');
$client->ignore('php.life');
check('watched', $client->listTubesWatched(true), ['default']);
echo "ok\n";
