import java.lang.reflect.Field;

import org.eclipse.jetty.server.Connector;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import software.amazon.dynamodb.services.local.main.ServerRunner;
import software.amazon.dynamodb.services.local.server.DynamoDBProxyServer;

/** Starts DynamoDB Local on the loopback address, since it has no setting for that. */
public class LoopbackOnly {
    public static void main(String[] args) throws Exception {
        DynamoDBProxyServer engine = ServerRunner.createServerFromCommandLineArgs(args);
        int bound = 0;
        for (Field field : DynamoDBProxyServer.class.getDeclaredFields()) {
            field.setAccessible(true);
            if (field.get(engine) instanceof Server server) {
                for (Connector connector : server.getConnectors()) {
                    ((ServerConnector) connector).setHost("127.0.0.1");
                    bound++;
                }
            }
        }
        if (bound == 0) {
            throw new IllegalStateException("the engine has no connector to bind");
        }
        engine.start();
        engine.join();
    }
}
