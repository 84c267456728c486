// swift-tools-version: 6.2

import PackageDescription

// A package of its own, so that what is measured against never enters a user's dependencies.
let moraine: Target.Dependency = .product(name: "Moraine", package: "Moraine")
let engine: Target.Dependency = .product(name: "MoraineEngine", package: "Moraine")
let system: Target.Dependency = .product(name: "SystemPackage", package: "swift-system")
let arguments: Target.Dependency = .product(
  name: "ArgumentParser", package: "swift-argument-parser")
let histogram: Target.Dependency = .product(name: "Histogram", package: "hdrhistogram-swift")

let package = Package(
  name: "MoraineBenchmarks",
  platforms: [.macOS(.v15)],
  dependencies: [
    .package(name: "Moraine", path: ".."),
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.5.0"),
    .package(url: "https://github.com/apple/swift-system", from: "1.6.0"),
    .package(url: "https://github.com/groue/GRDB.swift", from: "7.0.0"),
    .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
    .package(url: "https://github.com/ordo-one/benchmark", from: "1.38.1", traits: []),
    .package(url: "https://github.com/swiftlang/swift-subprocess", from: "1.0.0"),
  ],
  targets: [
    // Moraine by itself: what it is for, at the sizes that its goals name.
    .executableTarget(
      name: "MoraineBenchmark",
      dependencies: ["BenchmarkSupport", moraine, engine, arguments, system, histogram]),
    // Moraine and its peers, side by side.
    .executableTarget(
      name: "MoraineCompare",
      dependencies: [
        "BenchmarkSupport", "CPeers", moraine, engine, arguments, system, histogram,
        .product(name: "GRDB", package: "GRDB.swift"),
        .product(name: "Subprocess", package: "swift-subprocess"),
      ]),
    // What both need: seeded data, folders, tables.
    .target(name: "BenchmarkSupport", dependencies: [system]),
    // The peers' C interfaces behind one face; their libraries are loaded when they are there.
    .target(name: "CPeers"),
    .testTarget(name: "MoraineCompareTests", dependencies: ["MoraineCompare"]),
    // What Scripts/instructions counts.
    .executableTarget(
      name: "MoraineInstructions",
      dependencies: ["CFixedRandom", "MoraineMaterial", engine, system]),
    // So that a store's hash key is the same in each run.
    .target(name: "CFixedRandom"),
    .target(name: "MoraineMaterial", dependencies: [engine]),
    // swift package --package-path Benchmarks benchmark
    .executableTarget(
      name: "MoraineMicro",
      dependencies: [
        "MoraineMaterial", moraine, engine, system,
        .product(name: "Benchmark", package: "benchmark"),
      ],
      path: "Benchmarks/MoraineMicro",
      plugins: [.plugin(name: "BenchmarkPlugin", package: "benchmark")]),
  ]
)
