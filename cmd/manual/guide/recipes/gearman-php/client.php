<?php
// Queues two mails, and waits for a third. Use: php client.php (needs the extension gearman)
$client = new GearmanClient();
$client->addServer(getenv('GEARMAN_HOST') ?: '127.0.0.1', (int) (getenv('GEARMAN_PORT') ?: 4730));
foreach (['alice', 'bob'] as $to) {
    echo 'queued ', $client->doBackground('php_send', $to), "\n";
}
$client->doNormal('php_send', 'nobody');
echo $client->returnCode() === GEARMAN_WORK_FAIL ? 'failed' : 'sent', "\n";
