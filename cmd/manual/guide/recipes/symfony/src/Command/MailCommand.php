<?php

namespace App\Command;

use App\Message\SendMail;
use Symfony\Component\Console\Command\Command;
use Symfony\Component\Console\Input\InputInterface;
use Symfony\Component\Console\Output\OutputInterface;
use Symfony\Component\Messenger\MessageBusInterface;

// Adds php bin/console mail. Controllers dispatch messages in the same way.
class MailCommand extends Command
{
    protected static $defaultName = 'mail';
    private $bus;

    public function __construct(MessageBusInterface $bus)
    {
        parent::__construct();
        $this->bus = $bus;
    }

    protected function execute(InputInterface $input, OutputInterface $output): int
    {
        foreach (['alice', 'bob', 'nobody'] as $to) {
            $this->bus->dispatch(new SendMail($to));
        }
        return Command::SUCCESS;
    }
}
