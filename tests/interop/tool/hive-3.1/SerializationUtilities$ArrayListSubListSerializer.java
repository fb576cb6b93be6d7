package org.apache.hadoop.hive.ql.exec;

import java.util.ArrayList;
import java.util.List;
import org.apache.hive.com.esotericsoftware.kryo.Kryo;
import org.apache.hive.com.esotericsoftware.kryo.Serializer;
import org.apache.hive.com.esotericsoftware.kryo.io.Input;
import org.apache.hive.com.esotericsoftware.kryo.io.Output;

/** Stands for Hive 3.1's class of this name, which looks for a private field that only Java 8 has. */
class SerializationUtilities$ArrayListSubListSerializer extends Serializer<List<?>> {
  @Override
  public List<?> read(Kryo kryo, Input input, Class<List<?>> type) {
    int size = input.readInt(true);
    List<Object> list = new ArrayList<>(size);
    kryo.reference(list);
    while (list.size() < size) list.add(kryo.readClassAndObject(input));
    return list;
  }

  @Override
  public void write(Kryo kryo, Output output, List<?> list) {
    output.writeInt(list.size(), true);
    for (Object element : list) kryo.writeClassAndObject(output, element);
  }
}
