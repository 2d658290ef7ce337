<?php

// Reads Git repositories with Composer's own classes. Standard input is one JSON object: `repositories` are folders by
// name, and `entries` the p2 entries of svc by the same names. Standard output has, for each name: `composer`, the
// versions that VcsRepository finds, `packagist`, those that pass the checks of Packagist, too, `svc`, the entries as Composer
// loads them, and `log`, what VcsRepository says about each tag and branch.

declare(strict_types=1);

error_reporting(E_ALL & ~E_DEPRECATED);
require 'Composer/autoload.php';

use Composer\Config;
use Composer\IO\BufferIO;
use Composer\Package\AliasPackage;
use Composer\Package\Dumper\ArrayDumper;
use Composer\Package\Loader\ArrayLoader;
use Composer\Package\Loader\LoaderInterface;
use Composer\Package\Loader\ValidatingArrayLoader;
use Composer\Repository\VcsRepository;
use Composer\Util\HttpDownloader;
use Symfony\Component\Console\Output\StreamOutput;

$config = new Config(false);
$config->merge(['config' => ['cache-dir' => '/dev/null', 'home' => sys_get_temp_dir()]]);

function readAll(string $folder, LoaderInterface $loader, Config $config): array
{
    $io = new BufferIO('', StreamOutput::VERBOSITY_VERY_VERBOSE);
    $repository = new VcsRepository(['type' => 'git', 'url' => $folder], $io, $config, new HttpDownloader($io, $config));
    $repository->setLoader($loader);
    try {
        $packages = $repository->getPackages();
    } catch (Throwable $refusal) {
        $packages = [];
    }
    return ['versions' => dumpAll($packages), 'log' => explode("\n", trim($io->getOutput()))];
}

function dumpAll(array $packages): array
{
    $own = array_filter($packages, fn ($package) => !$package instanceof AliasPackage);
    return array_values(array_map(fn ($package) => (new ArrayDumper())->dump($package), $own));
}

function loadAll(array $entries): array
{
    $loaded = array_map(fn ($package) => $package instanceof AliasPackage ? $package->getAliasOf() : $package,
        (new ArrayLoader())->loadPackages($entries));
    return dumpAll($loaded);
}

['repositories' => $repositories, 'entries' => $entries] =
    json_decode(stream_get_contents(STDIN), true, 512, JSON_THROW_ON_ERROR);
$results = [];
foreach ($repositories as $name => $folder) {
    $composer = readAll($folder, new ArrayLoader(), $config);
    $results[$name] = [
        'composer' => $composer['versions'],
        'log' => $composer['log'],
        'packagist' => readAll($folder, new ValidatingArrayLoader(new ArrayLoader()), $config)['versions'],
        'svc' => loadAll($entries[$name]),
    ];
}
echo json_encode($results, JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES);
