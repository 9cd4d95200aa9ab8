<?php
// A Gearman worker with PHP's own extension.
// Use: php worker.php HOST PORT BEHAVIOUR=FUNCTION...
[, $host, $port] = $argv;
$behaviours = [
    'upper' => function (GearmanJob $job) {
        echo 'done ', $job->workload(), "\n";
        return strtoupper($job->workload());
    },
    'fail' => function (GearmanJob $job) {
        $job->sendFail();
    },
    'throw' => function (GearmanJob $job) {
        $job->sendException('boom');
    },
    'hang' => function (GearmanJob $job) {
        echo 'hanging ', $job->workload(), "\n";
        sleep(60);
    },
];
$worker = new GearmanWorker();
$worker->addServer($host, (int)$port);
foreach (array_slice($argv, 3) as $arg) {
    [$behaviour, $function] = explode('=', $arg, 2);
    $worker->addFunction($function, $behaviours[$behaviour]);
}
while (true) {
    @$worker->work();
}
