<?php
// Puts three mails into the tube php-mail. Use: php put.php
require __DIR__ . '/vendor/autoload.php'; // composer require pda/pheanstalk:^4.0

use Pheanstalk\Pheanstalk;

$queue = Pheanstalk::create(getenv('BEANSTALKD_HOST') ?: '127.0.0.1', (int) (getenv('BEANSTALKD_PORT') ?: 11300));
$queue->useTube('php-mail');
foreach (['alice', 'bob', 'nobody'] as $to) {
    // Priority 100, no delay, and 60 seconds to run.
    $job = $queue->put(json_encode(['to' => $to]), 100, 0, 60);
    echo 'put job ', $job->getId(), "\n";
}
