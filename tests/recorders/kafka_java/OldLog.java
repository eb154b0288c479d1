// Messages of Kafka's old formats, as its own classes of 3.9 write them: JSON out.

import java.nio.ByteBuffer;
import java.util.Base64;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.SimpleRecord;

public class OldLog {
    public static void main(String[] arguments) {
        StringBuilder told = new StringBuilder("[");
        for (byte magic = 0; magic < 2; magic++) {
            for (Compression compression : new Compression[] {Compression.NONE, Compression.gzip().build()}) {
                SimpleRecord[] records = new SimpleRecord[3];
                for (int n = 0; n < records.length; n++) {
                    records[n] = new SimpleRecord(magic == 0 ? -1 : 1_700_000_000_000L + n, ("k" + n).getBytes(), new byte[100]);
                }
                ByteBuffer data = MemoryRecords.withRecords(magic, compression, records).buffer();
                byte[] bytes = new byte[data.remaining()];
                data.get(bytes);
                told.append(told.length() > 1 ? "," : "").append('"');
                told.append(Base64.getEncoder().encodeToString(bytes)).append('"');
            }
        }
        System.out.println(told.append("]"));
    }
}
