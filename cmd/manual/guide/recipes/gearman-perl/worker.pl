# Sends mails until it is stopped. Use: perl worker.pl (needs Gearman::Worker)
use strict;
use warnings;
use Gearman::Worker;

$| = 1;
my $server = ($ENV{GEARMAN_HOST} // '127.0.0.1') . ':' . ($ENV{GEARMAN_PORT} // 4730);
my $worker = Gearman::Worker->new(job_servers => [$server]);
$worker->register_function(perl_send => sub {
    my $to = $_[0]->arg;
    return undef if $to eq 'nobody'; # the job has failed
    print "sent to $to\n";
    return "sent to $to";
});
$worker->work while 1;
