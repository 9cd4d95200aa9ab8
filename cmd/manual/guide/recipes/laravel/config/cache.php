<?php

// An application has this file. The worker looks here for queue:restart.
return ['default' => 'array', 'stores' => ['array' => ['driver' => 'array']]];
