"""ORC's own messages (orc_proto.proto of the ORC specification), built without protoc.

The descriptors live in a pool of their own, so they clash with nobody's. Fields that are not
listed here survive parse and serialise (protobuf keeps unknown fields), which is what lets a tail
be changed without losing anything. Text of statistics is declared ``bytes``: writers cut it in the
middle of a character.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "uint32": _Field.TYPE_UINT32,
    "uint64": _Field.TYPE_UINT64,
    "int32": _Field.TYPE_INT32,
    "sint32": _Field.TYPE_SINT32,
    "sint64": _Field.TYPE_SINT64,
    "double": _Field.TYPE_DOUBLE,
    "bool": _Field.TYPE_BOOL,
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
}
_MESSAGES: Final = """
PostScript: footerLength=1 uint64, compression=2 uint32, compressionBlockSize=3 uint64,
  version=4 packed uint32, metadataLength=5 uint64, writerVersion=6 uint32, magic=8000 string
StripeInformation: offset=1 uint64, indexLength=2 uint64, dataLength=3 uint64,
  footerLength=4 uint64, numberOfRows=5 uint64
Type: kind=1 uint32, subtypes=2 packed uint32, fieldNames=3 repeated string, maximumLength=4 uint32,
  precision=5 uint32, scale=6 uint32
UserMetadataItem: name=1 string, value=2 bytes
IntegerStatistics: minimum=1 sint64, maximum=2 sint64, sum=3 sint64
DoubleStatistics: minimum=1 double, maximum=2 double, sum=3 double
StringStatistics: minimum=1 bytes, maximum=2 bytes, sum=3 sint64
BucketStatistics: count=1 packed uint64
DecimalStatistics: minimum=1 string, maximum=2 string, sum=3 string
DateStatistics: minimum=1 sint32, maximum=2 sint32
TimestampStatistics: minimum=1 sint64, maximum=2 sint64, minimumUtc=3 sint64, maximumUtc=4 sint64,
  minimumNanos=5 int32, maximumNanos=6 int32
ColumnStatistics: numberOfValues=1 uint64, intStatistics=2 IntegerStatistics,
  doubleStatistics=3 DoubleStatistics, stringStatistics=4 StringStatistics,
  bucketStatistics=5 BucketStatistics, decimalStatistics=6 DecimalStatistics,
  dateStatistics=7 DateStatistics, timestampStatistics=9 TimestampStatistics, hasNull=10 bool
Footer: headerLength=1 uint64, contentLength=2 uint64, stripes=3 repeated StripeInformation,
  types=4 repeated Type, metadata=5 repeated UserMetadataItem, numberOfRows=6 uint64,
  statistics=7 repeated ColumnStatistics, rowIndexStride=8 uint32, writer=9 uint32,
  calendar=11 uint32, softwareVersion=12 string
StripeStatistics: colStats=1 repeated ColumnStatistics
Metadata: stripeStats=1 repeated StripeStatistics
Stream: kind=1 uint32, column=2 uint32, length=3 uint64
ColumnEncoding: kind=1 uint32, dictionarySize=2 uint32
StripeFooter: streams=1 repeated Stream, columns=2 repeated ColumnEncoding, writerTimezone=3 string
RowIndexEntry: positions=1 packed uint64, statistics=2 ColumnStatistics
RowIndex: entry=1 repeated RowIndexEntry
"""


def _build() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name="hiveacid/orc_tail.proto", package="hiveacid.orc", syntax="proto2"
    )
    for block in _MESSAGES.strip().replace("\n  ", " ").split("\n"):
        name, fields = block.split(": ")
        message = file.message_type.add(name=name)
        for text in fields.split(", "):
            key, kind = text.split(" ", 1)
            label, _, kind = kind.rpartition(" ")
            field_name, number = key.split("=")
            field = message.field.add(name=field_name, number=int(number))
            field.label = _Field.LABEL_REPEATED if label else _Field.LABEL_OPTIONAL
            field.options.packed = label == "packed"
            if kind in _SCALARS:
                field.type = _SCALARS[kind]
            else:
                field.type = _Field.TYPE_MESSAGE
                field.type_name = f".hiveacid.orc.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {
        message.name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"hiveacid.orc.{message.name}")
        )
        for message in file.message_type
    }


_CLASSES: Final = _build()
PostScript: Final = _CLASSES["PostScript"]
"""The last message of a file."""
Footer: Final = _CLASSES["Footer"]
"""Stripes, types, user metadata and file statistics."""
Metadata: Final = _CLASSES["Metadata"]
"""Statistics of each stripe."""
StripeFooter: Final = _CLASSES["StripeFooter"]
"""The streams of a stripe, in order, and the encoding of each column."""
RowIndex: Final = _CLASSES["RowIndex"]
"""Where each row group of one column starts in its streams."""
ColumnStatistics: Final = _CLASSES["ColumnStatistics"]
"""What is known of one column in a row group, a stripe or a file."""
Type: Final = _CLASSES["Type"]
"""One node of a file's type tree."""
