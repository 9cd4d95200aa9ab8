<?php

namespace App\Message;

class SendMail
{
    public $to;

    public function __construct(string $to)
    {
        $this->to = $to;
    }
}
