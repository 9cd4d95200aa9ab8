<?php
// Sends the mails of the tube php-mail until it is stopped. Use: php work.php
require __DIR__ . '/vendor/autoload.php';

use Pheanstalk\Pheanstalk;

function send(string $to): void
{
    if ($to === 'nobody') {
        throw new RuntimeException("$to has no address");
    }
    echo "sent to $to\n";
}

$queue = Pheanstalk::create(getenv('BEANSTALKD_HOST') ?: '127.0.0.1', (int) (getenv('BEANSTALKD_PORT') ?: 11300));
$queue->watchOnly('php-mail');
while (true) {
    $job = $queue->reserve();
    try {
        send(json_decode($job->getData(), true)['to']);
        $queue->delete($job);
    } catch (RuntimeException $e) {
        fwrite(STDERR, "buried job {$job->getId()}: {$e->getMessage()}\n");
        $queue->bury($job);
    }
}
