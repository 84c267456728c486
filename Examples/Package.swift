// swift-tools-version: 6.2

import PackageDescription

// A separate package, so that programs that use Moraine do not build the examples. Scripts/examples
// builds it and runs its tests.
let settings: [SwiftSetting] = [.treatAllWarnings(as: .error)]

let package = Package(
  name: "MoraineExamples",
  platforms: [.macOS(.v15)],
  products: [
    .executable(name: "AddressBook", targets: ["AddressBook"]),
    .executable(name: "Contacts", targets: ["ContactsPort"]),
    .executable(name: "ContactsOriginal", targets: ["ContactsOriginal"]),
    .executable(name: "SharedSettings", targets: ["SharedSettings"]),
  ],
  dependencies: [
    .package(name: "Moraine", path: ".."),
    .package(url: "https://github.com/apple/swift-system", from: "1.6.0"),
    .package(url: "https://github.com/swiftlang/swift-subprocess", from: "1.0.0"),
  ],
  targets: [
    // The actor-repository pattern, with a view model and a program.
    .executableTarget(name: "ContactsOriginal", swiftSettings: settings),
    // The same program with Moraine's repository. Not named `Contacts`: Apple has such a module.
    .executableTarget(
      name: "ContactsPort",
      dependencies: [.product(name: "Moraine", package: "Moraine")],
      path: "Sources/Contacts",
      swiftSettings: settings
    ),
    // Settings that two processes edit at the same time.
    .executableTarget(
      name: "SharedSettings",
      dependencies: [.product(name: "Moraine", package: "Moraine")],
      swiftSettings: settings
    ),
    // A list that an index filters and sorts.
    .executableTarget(
      name: "AddressBook",
      dependencies: [.product(name: "Moraine", package: "Moraine")],
      swiftSettings: settings
    ),
    // Starts the built examples as a user does.
    .target(
      name: "ExampleTesting",
      dependencies: [
        .product(name: "Subprocess", package: "swift-subprocess"),
        .product(name: "SystemPackage", package: "swift-system"),
      ],
      path: "Tests/Support",
      swiftSettings: settings
    ),
    .testTarget(
      name: "AddressBookTests",
      dependencies: [
        "AddressBook", "ExampleTesting", .product(name: "Moraine", package: "Moraine"),
        .product(name: "MoraineTesting", package: "Moraine"),
      ],
      swiftSettings: settings
    ),
    .testTarget(
      name: "ContactsTests",
      dependencies: [
        "ContactsOriginal", "ContactsPort", "ExampleTesting",
        .product(name: "Moraine", package: "Moraine"),
      ],
      swiftSettings: settings
    ),
    .testTarget(
      name: "SharedSettingsTests",
      dependencies: ["ExampleTesting", "SharedSettings"],
      swiftSettings: settings
    ),
  ]
)
