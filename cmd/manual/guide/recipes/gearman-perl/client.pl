# Queues two mails, and waits for a third. Use: perl client.pl (needs Gearman::Client)
use strict;
use warnings;
use Gearman::Client;

my $server = ($ENV{GEARMAN_HOST} // '127.0.0.1') . ':' . ($ENV{GEARMAN_PORT} // 4730);
my $client = Gearman::Client->new(job_servers => [$server]);
print 'queued ', $client->dispatch_background(perl_send => $_), "\n" for qw(alice bob);
my $result = $client->do_task(perl_send => 'nobody');
print defined $result ? "$$result\n" : "failed\n";
