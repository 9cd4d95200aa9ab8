<?php
// Sends mails until it is stopped. Use: php worker.php
$worker = new GearmanWorker();
$worker->addServer(getenv('GEARMAN_HOST') ?: '127.0.0.1', (int) (getenv('GEARMAN_PORT') ?: 4730));
$worker->addFunction('php_send', function (GearmanJob $job) {
    $to = $job->workload();
    if ($to === 'nobody') {
        $job->sendFail();
        return;
    }
    echo "sent to $to\n";
    return "sent to $to";
});
while ($worker->work() || $worker->returnCode() === GEARMAN_WORK_FAIL);
fwrite(STDERR, $worker->error() . "\n");
