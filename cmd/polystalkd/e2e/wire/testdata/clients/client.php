<?php
// A Gearman client with PHP's own extension; a line for every job.
// Use: php client.php HOST PORT (fg|bg FUNCTION PAYLOAD)...
[, $host, $port] = $argv;
foreach (array_chunk(array_slice($argv, 3), 3) as [$mode, $function, $payload]) {
    $client = new GearmanClient();
    $client->addServer($host, (int)$port);
    if ($mode === 'bg') {
        $handle = $client->doBackground($function, $payload);
        echo $client->returnCode() === GEARMAN_SUCCESS && $handle ? "created\n" : "error {$client->error()}\n";
        continue;
    }
    $said = null;
    $client->setExceptionCallback(function (GearmanTask $task) use (&$said) {
        $said = 'exception ' . $task->data();
        return GEARMAN_SUCCESS;
    });
    $client->setFailCallback(function () use (&$said) {
        $said ??= 'fail';
        return GEARMAN_SUCCESS;
    });
    $client->setCompleteCallback(function (GearmanTask $task) use (&$said) {
        $said = 'result ' . $task->data();
        return GEARMAN_SUCCESS;
    });
    $client->addTask($function, $payload);
    @$client->runTasks();
    if ($said !== null && str_starts_with($said, 'exception') && str_contains($said, 'boom')) {
        $said = 'exception boom'; // others wrap it in a format of their own
    }
    echo $said ?? "error {$client->error()}", "\n";
}
