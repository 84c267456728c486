// swift-tools-version: 6.2

import PackageDescription

let settings: [SwiftSetting] = [
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
]

// Code that only tests has is compiled without optimization, file by file on all cores: the whole
// module with optimization takes several times as long, on one core. A package that depends on
// Moraine does not see these flags.
let testSettings =
  settings + [
    .unsafeFlags(
      ["-Onone", "-no-whole-module-optimization", "-enable-batch-mode"],
      .when(configuration: .release))
  ]

let system: Target.Dependency = .product(name: "SystemPackage", package: "swift-system")
let subprocess: Target.Dependency = .product(
  name: "Subprocess", package: "swift-subprocess", condition: .when(traits: ["Command"]))

// `liblz4` is the only system library of the project, and exists on these platforms. Elsewhere, and
// with the trait PortableLZ4, the LZ4 in MoraineFormat/Compression/Portable takes its place: then no
// file imports CLZ4, and nothing is linked. (A dependency cannot depend on the absence of a trait.)
let lz4Platforms: [Platform] = [.linux, .macOS]
let lz4Define: [SwiftSetting] = [.define("LIBLZ4", .when(platforms: lz4Platforms))]
let lz4Settings = settings + lz4Define
let lz4: Target.Dependency = .target(name: "CLZ4", condition: .when(platforms: lz4Platforms))

#if os(macOS)
  // Homebrew's folder is not where the compiler looks.
  let lz4Package: String? = "liblz4"
#else
  // Its flags would link the library with the trait, too. The module map links it when a file
  // imports the module.
  let lz4Package: String? = nil
#endif

let package = Package(
  name: "Moraine",
  platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
  products: [
    .library(name: "Moraine", targets: ["Moraine"]),
    .library(name: "MoraineEngine", targets: ["MoraineEngine"]),
    .library(name: "MoraineArchive", targets: ["MoraineArchive"]),
    .library(name: "MoraineS3", targets: ["MoraineS3"]),
    .library(name: "MoraineTesting", targets: ["MoraineTesting"]),
    .executable(name: "moraine", targets: ["MoraineCommand"]),
  ],
  // All traits but Command are off by default. A package gets none of the packages that its traits
  // do not need: with `traits: []` it gets swift-system alone.
  traits: [
    .default(enabledTraits: ["Command"]),
    .trait(
      name: "Command",
      description: "The command, the demonstration, and the kill harness of MoraineTesting."),
    .trait(name: "Logging", description: "A store's events as messages of swift-log."),
    .trait(name: "Metrics", description: "A store's events and figures in swift-metrics."),
    .trait(name: "ServiceLifecycle", description: "A store as a service that ends in order."),
    .trait(name: "ConfigurationReader", description: "Settings read by swift-configuration."),
    // With Command, so that `--traits S3` still builds the command.
    .trait(
      name: "S3", description: "Archives in buckets of servers that speak S3.",
      enabledTraits: ["Command"]),
    .trait(name: "PortableLZ4", description: "LZ4 in Swift instead of the library liblz4."),
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-system", from: "1.6.0"),
    // Packages that only the traits need.
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.5.0"),
    .package(url: "https://github.com/swiftlang/swift-subprocess", from: "1.0.0"),
    .package(url: "https://github.com/apple/swift-log", from: "1.6.0"),
    .package(url: "https://github.com/apple/swift-metrics", from: "2.5.0"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.6.0"),
    .package(url: "https://github.com/apple/swift-configuration", from: "1.0.0", traits: []),
    .package(url: "https://github.com/swift-server/async-http-client", from: "1.24.0"),
    .package(url: "https://github.com/apple/swift-crypto", from: "4.0.0"),
    .package(url: "https://github.com/apple/swift-nio", from: "2.81.0"),
    .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.29.0"),
  ],
  targets: [
    .systemLibrary(
      name: "CLZ4",
      pkgConfig: lz4Package,
      providers: [.apt(["liblz4-dev"]), .brew(["lz4"])]
    ),
    // Calls that Swift cannot make: processor instructions, variadic and platform system calls.
    .target(name: "CMoraineShims"),
    // Bytes <-> records. No I/O.
    .target(
      name: "MoraineFormat",
      dependencies: [lz4, "CMoraineShims"],
      swiftSettings: lz4Settings
    ),
    // The only module that touches the operating system.
    .target(
      name: "MoraineStorage",
      dependencies: ["CMoraineShims", system],
      swiftSettings: settings
    ),
    // Store, index, recovery. No Foundation.
    .target(
      name: "MoraineEngine",
      dependencies: ["MoraineFormat", "MoraineStorage", system],
      swiftSettings: settings
    ),
    // The module that an app imports. Uses Foundation.
    .target(
      name: "Moraine",
      dependencies: [
        "MoraineEngine", system,
        .product(name: "Logging", package: "swift-log", condition: .when(traits: ["Logging"])),
        .product(name: "Metrics", package: "swift-metrics", condition: .when(traits: ["Metrics"])),
        .product(
          name: "ServiceLifecycle", package: "swift-service-lifecycle",
          condition: .when(traits: ["ServiceLifecycle"])),
        .product(
          name: "Configuration", package: "swift-configuration",
          condition: .when(traits: ["ConfigurationReader"])),
      ],
      swiftSettings: settings
    ),
    // A continuous copy of a store in a store of objects. No Foundation.
    .target(
      name: "MoraineArchive",
      dependencies: ["MoraineEngine", "MoraineFormat", "MoraineStorage", system],
      swiftSettings: settings
    ),
    // A bucket as a store of objects; empty without the trait. No Foundation.
    .target(
      name: "MoraineS3",
      dependencies: [
        "MoraineArchive", "MoraineEngine", "MoraineStorage", system,
        .product(
          name: "AsyncHTTPClient", package: "async-http-client",
          condition: .when(traits: ["S3"])),
        .product(name: "Crypto", package: "swift-crypto", condition: .when(traits: ["S3"])),
        .product(name: "NIOCore", package: "swift-nio", condition: .when(traits: ["S3"])),
        .product(name: "NIOHTTP1", package: "swift-nio", condition: .when(traits: ["S3"])),
        .product(name: "NIOPosix", package: "swift-nio", condition: .when(traits: ["S3"])),
        .product(name: "NIOSSL", package: "swift-nio-ssl", condition: .when(traits: ["S3"])),
      ],
      swiftSettings: settings
    ),
    // Tools to test recovery: Moraine's and an embedder's.
    .target(
      name: "MoraineTesting",
      dependencies: [
        "MoraineArchive", "MoraineEngine", "MoraineStorage", system,
        subprocess,
      ],
      swiftSettings: settings
    ),
    .executableTarget(
      name: "MoraineCommand",
      dependencies: [
        "Moraine", "MoraineArchive", "MoraineFormat", "MoraineTesting", system,
        .target(name: "MoraineS3", condition: .when(traits: ["S3"])),
        .product(
          name: "ArgumentParser", package: "swift-argument-parser",
          condition: .when(traits: ["Command"])),
        subprocess,
      ],
      swiftSettings: settings
    ),
    // The main job with real input. Scripts/demo runs it.
    .executableTarget(
      name: "moraine-demo",
      dependencies: [
        "MoraineEngine", system,
        subprocess,
      ],
      path: "Sources/MoraineDemo",
      exclude: ["Data"],
      swiftSettings: settings
    ),
    .testTarget(name: "MoraineArchitectureTests", swiftSettings: testSettings),
    .testTarget(
      name: "MoraineArchiveTests",
      dependencies: [
        "Moraine", "MoraineArchive", "MoraineEngine", "MoraineFormat", "MoraineStorage",
        "MoraineTesting", system,
        .target(name: "MoraineS3", condition: .when(traits: ["S3"])),
      ],
      swiftSettings: testSettings
    ),
    // Runs the built command as a user does.
    .testTarget(
      name: "MoraineCommandTests",
      dependencies: [
        "Moraine", "MoraineCommand", "MoraineFormat", "MoraineTesting", system,
        subprocess,
      ],
      swiftSettings: testSettings
    ),
    // A call that tests need and Swift cannot make: fork.
    .target(name: "CTestSupport", path: "Tests/Support"),
    .testTarget(
      name: "MoraineEngineTests",
      dependencies: [
        "CMoraineShims", "CTestSupport", "MoraineEngine", "MoraineFormat", "MoraineStorage",
        "MoraineTesting", system,
      ],
      swiftSettings: testSettings
    ),
    // The checks of the fuzzers. The ordinary tests run them on the corpus.
    .target(
      name: "MoraineFuzzing",
      dependencies: ["MoraineEngine", "MoraineFormat", "MoraineStorage", system],
      path: "Tests/Fuzzing/Bodies",
      swiftSettings: lz4Settings
    ),
    .testTarget(
      name: "MoraineFuzzingTests",
      dependencies: ["MoraineFuzzing"],
      swiftSettings: testSettings
    ),
    .testTarget(
      name: "MoraineFormatTests",
      dependencies: ["MoraineFormat", lz4, "CMoraineShims"],
      swiftSettings: testSettings + lz4Define
    ),
    // Empty without the trait. A server in the process answers the requests.
    .testTarget(
      name: "MoraineS3Tests",
      dependencies: [
        "MoraineArchive", "MoraineEngine", "MoraineS3", "MoraineStorage", "MoraineTesting", system,
        .product(name: "Crypto", package: "swift-crypto", condition: .when(traits: ["S3"])),
        .product(name: "NIOCore", package: "swift-nio", condition: .when(traits: ["S3"])),
        .product(name: "NIOHTTP1", package: "swift-nio", condition: .when(traits: ["S3"])),
        .product(name: "NIOPosix", package: "swift-nio", condition: .when(traits: ["S3"])),
      ],
      swiftSettings: testSettings
    ),
    .testTarget(
      name: "MoraineTestingTests",
      dependencies: ["MoraineEngine", "MoraineStorage", "MoraineTesting", system],
      swiftSettings: testSettings
    ),
    .testTarget(
      name: "MoraineTests",
      dependencies: ["Moraine", "MoraineStorage", "MoraineTesting", system],
      swiftSettings: testSettings
    ),
    // Compiles and runs every Swift line of the README and the articles.
    .testTarget(
      name: "MoraineDocumentationTests",
      dependencies: [
        "Moraine", "MoraineArchive", "MoraineEngine", "MoraineTesting", system,
        .target(name: "MoraineS3", condition: .when(traits: ["S3"])),
      ],
      swiftSettings: testSettings
    ),
    .testTarget(
      name: "MoraineStorageTests",
      dependencies: ["CMoraineShims", "CTestSupport", "MoraineStorage", system],
      swiftSettings: testSettings
    ),
  ]
)

// libFuzzer is no part of an ordinary build. Scripts/fuzz sets this variable.
if Context.environment["MORAINE_FUZZING"] != nil {
  package.products.append(.executable(name: "moraine-fuzz", targets: ["moraine-fuzz"]))
  package.targets.append(
    .executableTarget(
      name: "moraine-fuzz",
      dependencies: ["MoraineFuzzing", "MoraineStorage"],
      path: "Tests/Fuzzing/Driver",
      swiftSettings: settings))
}
