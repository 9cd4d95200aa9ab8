<?php

namespace App\MessageHandler;

use App\Message\SendMail;
use Symfony\Component\Messenger\Attribute\AsMessageHandler;

#[AsMessageHandler]
class SendMailHandler
{
    public function __invoke(SendMail $mail): void
    {
        if ($mail->to === 'nobody') {
            throw new \RuntimeException("{$mail->to} has no address");
        }
        echo "sent to {$mail->to}\n";
    }
}
