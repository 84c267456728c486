// swift-tools-version: 6.2

import PackageDescription

// A package of its own, so that what is measured against never enters a user's dependencies.
let package = Package(
  name: "MoraineBenchmarks",
  platforms: [.macOS(.v15)],
  dependencies: [
    .package(name: "Moraine", path: ".."),
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.5.0"),
    .package(url: "https://github.com/apple/swift-system", from: "1.6.0"),
    .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
  ],
  targets: [
    .executableTarget(
      name: "MoraineBenchmark",
      dependencies: [
        .product(name: "Moraine", package: "Moraine"),
        .product(name: "MoraineEngine", package: "Moraine"),
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "SystemPackage", package: "swift-system"),
        .product(name: "Histogram", package: "hdrhistogram-swift"),
      ])
  ]
)
