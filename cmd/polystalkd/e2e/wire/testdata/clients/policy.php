<?php
// PHP's pheanstalk in tubes with policies: policies_test.go says which. Use: php policy.php HOST PORT
require 'Pheanstalk/autoload.php';

use Pheanstalk\Exception\ServerException;
use Pheanstalk\Pheanstalk;

require __DIR__ . '/check.php';

$connect = fn () => Pheanstalk::create($argv[1], (int) $argv[2]);
$worker = $connect()->watchOnly('retry.php');
$producer = $connect();
$id = $producer->useTube('retry.php')->put('first')->getId();
for ($attempt = 1; $attempt <= 3; $attempt++) {
    $job = $worker->reserveWithTimeout(10);
    check('job', [$job->getId(), $job->getData(), (int) $worker->statsJob($job)['reserves']], [$id, 'first', $attempt]);
    if ($attempt === 2) {
        unset($worker); // it is lost
        gc_collect_cycles();
        $worker = $connect()->watchOnly('retry.php');
    } else {
        $worker->release($job);
    }
}
check('a fourth attempt', $worker->reserveWithTimeout(0), null);
check('peek buried', $producer->peekBuried()->getId(), $id);
check('releases', (int) $producer->statsJob($job)['releases'], 2);
$producer->kick(1);
$worker->delete($worker->reserveWithTimeout(0));

$producer->useTube('full.php')->put('one');
try {
    $producer->put("use other.php\r\nput 0 0 1 3\r\ntwo");
    check('a full tube', 'inserted', 'an error');
} catch (ServerException $e) {
    check('a full tube', str_contains($e->getMessage(), 'OUT_OF_MEMORY') || str_contains($e->getMessage(), 'memory'), true);
}
$producer->useTube('other.php')->put('two');
check('other', $producer->peekReady()->getData(), 'two');
check('other', (int) $producer->statsTube('other.php')['total-jobs'], 1);
check('full', (int) $producer->statsTube('full.php')['total-jobs'], 1);
check('full', $producer->useTube('full.php')->peekReady()->getData(), 'one');
echo "ok\n";
