<?php

namespace App;

use App\Jobs\SendMail;
use Illuminate\Foundation\Console\Kernel as ConsoleKernel;

class Kernel extends ConsoleKernel
{
    // Adds php artisan mail. Controllers dispatch jobs in the same way.
    protected function commands(): void
    {
        $this->command('mail', function () {
            foreach (['alice', 'bob', 'nobody'] as $to) {
                SendMail::dispatch($to);
            }
        });
    }
}
