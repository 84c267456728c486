// swift-tools-version: 6.2

import PackageDescription

// Moraine below packages of others: a persist driver for Hummingbird, two servers that use it, and a
// storage engine for Bodega. A package of its own, because a first build of Hummingbird takes
// minutes. Scripts/servers builds it and runs its tests.
let settings: [SwiftSetting] = [.treatAllWarnings(as: .error)]

let moraine: Target.Dependency = .product(name: "Moraine", package: "Moraine")
let archive: Target.Dependency = .product(name: "MoraineArchive", package: "Moraine")
let testing: Target.Dependency = .product(name: "MoraineTesting", package: "Moraine")
let hummingbird: Target.Dependency = .product(name: "Hummingbird", package: "hummingbird")
let lifecycle: Target.Dependency = .product(
  name: "ServiceLifecycle", package: "swift-service-lifecycle")

let package = Package(
  name: "MoraineServers",
  platforms: [.macOS(.v15)],
  products: [
    .library(name: "MoraineHummingbird", targets: ["MoraineHummingbird"]),
    .library(name: "MoraineBodega", targets: ["MoraineBodega"]),
    .executable(name: "SessionServer", targets: ["SessionServer"]),
    .executable(name: "NotesServer", targets: ["NotesServer"]),
  ],
  dependencies: [
    .package(name: "Moraine", path: "../..", traits: ["ServiceLifecycle"]),
    .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.5.0"),
    .package(url: "https://github.com/apple/swift-async-algorithms", from: "1.1.0"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.6.0"),
    // The client of the tests.
    .package(url: "https://github.com/swift-server/async-http-client", from: "1.30.0"),
    .package(url: "https://github.com/apple/swift-system", from: "1.6.0"),
    .package(url: "https://github.com/swiftlang/swift-subprocess", from: "1.0.0"),
  ],
  targets: [
    .target(
      name: "MoraineHummingbird",
      dependencies: [moraine, hummingbird],
      swiftSettings: settings
    ),
    // The routes of the server, without the program, so that tests can serve them.
    .target(name: "Sessions", dependencies: [hummingbird], swiftSettings: settings),
    .executableTarget(
      name: "SessionServer",
      dependencies: ["MoraineHummingbird", "Sessions", moraine, hummingbird],
      swiftSettings: settings
    ),
    .target(
      name: "Notes",
      dependencies: [
        moraine, hummingbird, lifecycle,
        .product(name: "AsyncAlgorithms", package: "swift-async-algorithms"),
      ],
      resources: [.embedInCode("page.html")],
      swiftSettings: settings
    ),
    .executableTarget(
      name: "NotesServer",
      dependencies: [
        "MoraineHummingbird", "Notes", moraine, archive, hummingbird, lifecycle,
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "SystemPackage", package: "swift-system"),
      ],
      swiftSettings: settings
    ),
    .target(name: "MoraineBodega", dependencies: [moraine], swiftSettings: settings),
    // Folders and server processes for tests.
    .target(
      name: "ServerTesting",
      dependencies: [
        .product(name: "Subprocess", package: "swift-subprocess"),
        .product(name: "SystemPackage", package: "swift-system"),
      ],
      path: "Tests/Support",
      swiftSettings: settings
    ),
    .testTarget(
      name: "MoraineHummingbirdTests",
      dependencies: [
        "MoraineHummingbird", "ServerTesting", moraine, testing, hummingbird,
        .product(name: "HummingbirdTesting", package: "hummingbird"),
      ],
      swiftSettings: settings
    ),
    // Some of these tests start the built server.
    .testTarget(
      name: "SessionsTests",
      dependencies: [
        "MoraineHummingbird", "ServerTesting", "SessionServer", "Sessions", moraine, testing,
        hummingbird,
        .product(name: "HummingbirdTesting", package: "hummingbird"),
        .product(name: "AsyncHTTPClient", package: "async-http-client"),
        .product(name: "Subprocess", package: "swift-subprocess"),
      ],
      swiftSettings: settings
    ),
    // So do some of these.
    .testTarget(
      name: "NotesTests",
      dependencies: [
        "MoraineHummingbird", "Notes", "NotesServer", "ServerTesting", moraine, testing,
        hummingbird,
        .product(name: "HummingbirdTesting", package: "hummingbird"),
        .product(name: "AsyncHTTPClient", package: "async-http-client"),
        .product(name: "Subprocess", package: "swift-subprocess"),
      ],
      swiftSettings: settings
    ),
    .testTarget(
      name: "MoraineBodegaTests",
      dependencies: ["MoraineBodega", "ServerTesting", moraine, testing],
      swiftSettings: settings
    ),
  ]
)
