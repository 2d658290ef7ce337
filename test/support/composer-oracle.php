<?php

// Asks Composer's own classes. Standard input is one JSON list of [method, ...arguments]; standard output is the
// list of results, null where Composer throws. The first argument, if any, is another semver library to ask.

declare(strict_types=1);

error_reporting(E_ALL & ~E_DEPRECATED);
set_error_handler(function (int $level, string $message): bool {
    if (error_reporting() & $level) {
        throw new ErrorException($message);
    }
    return true;
});

if (isset($argv[1])) {
    require $argv[1];
}
require 'Composer/autoload.php';

use Composer\Autoload\AutoloadGenerator;
use Composer\Composer;
use Composer\EventDispatcher\EventDispatcher;
use Composer\Installer\SuggestedPackagesReporter;
use Composer\IO\NullIO;
use Composer\Package\CompletePackage;
use Composer\Package\Loader\ArrayLoader;
use Composer\Package\Loader\ValidatingArrayLoader;
use Composer\Package\RootPackage;
use Composer\Package\Version\VersionParser;
use Composer\Semver\Constraint\Constraint;

$parser = new VersionParser();
$methods = [
    'normalize' => fn (string $version) => $parser->normalize($version),
    'stability' => fn (string $version) => VersionParser::parseStability($version),
    'accepts' => fn (string $constraint) => $parser->parseConstraints($constraint) !== null,
    'satisfies' => fn (string $normalized, string $constraint) =>
        $parser->parseConstraints($constraint)->matches(new Constraint('==', $normalized)),
    'compare' => fn (string $a, string $b) => version_compare($a, $b),
    'misnames' => fn (string $name) => ValidatingArrayLoader::hasPackageNamingError($name),
    'load' => fn (array $version) => useAsConsumer((new ArrayLoader())->loadPackages([$version])[0]),
];

/** Does what `update`, `install` and `show` do with a loaded package. */
function useAsConsumer(CompletePackage $package): string
{
    $generator = new AutoloadGenerator(new EventDispatcher(new Composer(), new NullIO()));
    (new ReflectionMethod($generator, 'validatePackage'))->invoke($generator, $package);
    $root = new RootPackage('acme/root', '1.0.0.0', '1.0.0');
    $autoloads = $generator->parseAutoloads([[$root, ''], [$package, '/nowhere']], $root);
    $generator->createLoader(['classmap' => []] + $autoloads);

    $shown = [$package->getLicense(), $package->getKeywords(), $package->getIncludePaths(), $package->getSupport()];
    foreach ($package->getAutoload() as $type => $paths) {
        $shown[] = str_starts_with($type, 'psr-') ? array_map(fn ($path) => implode((array) $path), $paths) : $paths;
    }
    array_map(fn (array $texts) => implode(', ', $texts), $shown);
    foreach ($package->getSuggests() as $target => $reason) {
        (new SuggestedPackagesReporter(new NullIO()))->addPackage($package->getName(), $target, $reason);
    }
    foreach ([...$package->getBinaries(), ...$package->getIncludePaths()] as $path) {
        trim($path, '/');
    }
    return $package->getName();
}

$results = [];
foreach (json_decode(stream_get_contents(STDIN), true, 512, JSON_THROW_ON_ERROR) as $question) {
    try {
        $results[] = $methods[array_shift($question)](...$question);
    } catch (Throwable $refusal) {
        $results[] = null;
    }
}
echo json_encode($results, JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE);
