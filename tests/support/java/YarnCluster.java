// Hadoop's mini cluster of YARN: a resource manager and one node manager. The argument names the folder in which it
// writes yarn-site.xml for its clients as soon as containers can be asked for. It ends with its standard input.

import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

public class YarnCluster {
    public static void main(String[] arguments) {
        try {
            run(Path.of(arguments[0]));
            System.exit(0);
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1); // its threads would go on for ever
        }
    }

    static void run(Path folder) throws Exception {
        Configuration settings = new Configuration();
        String scheduler = "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler";
        settings.set("yarn.resourcemanager.scheduler.class", scheduler);
        settings.setInt("yarn.scheduler.minimum-allocation-mb", 256);
        settings.setInt("yarn.minicluster.yarn.nodemanager.resource.memory-mb", 2048);
        // A machine of tests may have a disk that is nearly full, and is shared with others.
        settings.setFloat("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", 100);
        settings.setBoolean("yarn.nodemanager.pmem-check-enabled", false);
        settings.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
        // Else a client waits for a quarter of an hour for a cluster that has ended.
        settings.setInt("yarn.resourcemanager.connect.max-wait.ms", 30_000);
        MiniYARNCluster cluster = new MiniYARNCluster("yarn", 1, 1, 1);
        Runtime.getRuntime().addShutdownHook(new Thread(cluster::stop)); // containers end with it, however it ends
        cluster.init(settings);
        cluster.start();
        while (!cluster.waitForNodeManagersToConnect(1_000)) {}
        Path written = Files.createTempFile(folder, "yarn", ".xml");
        try (OutputStream output = Files.newOutputStream(written)) {
            cluster.getConfig().writeXml(output);
        }
        Files.move(written, folder.resolve("yarn-site.xml"), StandardCopyOption.ATOMIC_MOVE);
        while (System.in.read() >= 0) {}
    }
}
