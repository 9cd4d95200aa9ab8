<?php

namespace App\Jobs;

use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Foundation\Bus\Dispatchable;
use Illuminate\Queue\InteractsWithQueue;
use RuntimeException;
use Throwable;

class SendMail implements ShouldQueue
{
    use Dispatchable, InteractsWithQueue, Queueable;

    public $tries = 3;
    public $backoff = 0; // seconds until the next try
    public $to;

    public function __construct(string $to)
    {
        $this->to = $to;
    }

    public function handle(): void
    {
        if ($this->to === 'nobody') {
            throw new RuntimeException("{$this->to} has no address");
        }
        echo "sent to {$this->to}\n";
    }

    public function failed(Throwable $e): void
    {
        echo "gave up: {$e->getMessage()}\n";
    }
}
