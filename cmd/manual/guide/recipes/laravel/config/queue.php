<?php

return [
    'default' => env('QUEUE_CONNECTION', 'beanstalkd'),
    'connections' => [
        'beanstalkd' => [
            'driver' => 'beanstalkd',
            'host' => env('BEANSTALKD_HOST', '127.0.0.1'),
            'port' => env('BEANSTALKD_PORT', 11300),
            'queue' => env('BEANSTALKD_QUEUE', 'laravel'), // the tube
            'retry_after' => 90, // the time to run, in seconds: longer than the longest job
            'block_for' => 5, // wait for a job in the server, instead of asking every few seconds
        ],
    ],
    // An application with a database keeps failed jobs there: see queue:failed-table.
    'failed' => ['driver' => 'null'],
];
