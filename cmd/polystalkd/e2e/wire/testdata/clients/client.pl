# A Gearman client with Perl's Gearman::Client; a line for every job.
# Use: perl client.pl HOST PORT (fg|bg FUNCTION PAYLOAD)...
use strict;
use warnings;
use Gearman::Client;
use Gearman::Task;

$| = 1;
my ($host, $port, @jobs) = @ARGV;
my $client = Gearman::Client->new(job_servers => ["$host:$port"], exceptions => 1);
while (my ($mode, $function, $payload) = splice @jobs, 0, 3) {
    if ($mode eq 'bg') {
        print $client->dispatch_background($function, $payload) ? "created\n" : "error\n";
        next;
    }
    my $said;
    my $set = $client->new_task_set;
    $set->add_task($function, \$payload, {
        on_complete  => sub { $said = "result ${$_[0]}" },
        on_fail      => sub { $said //= 'fail' },
        # Others wrap it in a format of their own.
        on_exception => sub { $said = $_[0] =~ /boom/ ? 'exception boom' : "exception $_[0]" },
    });
    $set->wait;
    print $said // 'error', "\n";
}
