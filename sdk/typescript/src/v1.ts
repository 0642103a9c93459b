// The generated messages and stubs of Kent's protocol: `import { RegionsService } from "kent-client/v1"`.

export * from "./stubs/google/protobuf/any.js";
export * from "./stubs/google/protobuf/duration.js";
export * from "./stubs/google/protobuf/field_mask.js";
export * from "./stubs/google/rpc/error_details.js";
export { Status as RpcStatus } from "./stubs/google/rpc/status.js";
export * from "./stubs/kent/v1/access.js";
export * from "./stubs/kent/v1/admin.js";
export * from "./stubs/kent/v1/allocator.js";
export * from "./stubs/kent/v1/codec.js";
export * from "./stubs/kent/v1/layouts.js";
export * from "./stubs/kent/v1/regions.js";
export * from "./stubs/kent/v1/types.js";
