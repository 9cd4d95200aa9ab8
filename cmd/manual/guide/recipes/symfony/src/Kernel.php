<?php

namespace App;

use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Component\HttpKernel\Kernel as BaseKernel;

// An application has this file.
class Kernel extends BaseKernel
{
    use MicroKernelTrait;
}
