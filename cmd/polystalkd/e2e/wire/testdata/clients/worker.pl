# A Gearman worker with Perl's Gearman::Worker.
# Use: perl worker.pl HOST PORT BEHAVIOUR=FUNCTION...
use strict;
use warnings;
use Gearman::Worker;

$| = 1;
my ($host, $port, @functions) = @ARGV;
my %behaviours = (
    upper => sub { print "done ", $_[0]->arg, "\n"; return uc $_[0]->arg },
    fail  => sub { return undef },
    throw => sub { die "boom\n" },
    hang  => sub { print "hanging ", $_[0]->arg, "\n"; sleep 60; return '' },
);
my $worker = Gearman::Worker->new(job_servers => ["$host:$port"]);
for (@functions) {
    my ($behaviour, $function) = split /=/, $_, 2;
    $worker->register_function($function, $behaviours{$behaviour});
}
$worker->work while 1;
