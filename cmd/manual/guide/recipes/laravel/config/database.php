<?php

// An application has this file. This one uses no database.
return ['default' => 'none', 'connections' => []];
