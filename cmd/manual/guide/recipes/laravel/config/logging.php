<?php

// An application has this file.
return ['default' => 'errorlog', 'channels' => ['errorlog' => ['driver' => 'errorlog']]];
