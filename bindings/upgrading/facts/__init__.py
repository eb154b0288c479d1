"""The facts about releases of RabbitMQ that matter to a topology, by theme; `table.FACTS` has all."""
