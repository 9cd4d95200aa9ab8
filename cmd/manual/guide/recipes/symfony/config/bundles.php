<?php

// An application has this file.
return [Symfony\Bundle\FrameworkBundle\FrameworkBundle::class => ['all' => true]];
