-- Release a read lock once, or free it. Idempotent.
-- USES  release_read foreign rwmutex readers read
-- KEYS  1 the lock
--       2 prefix of all readers' keys
-- ARGV  1 owner
--       2 hold count of the owner afterwards: 0 frees it
--       3 PUBLISH or SPUBLISH
-- RETURN  0  the owner does not hold it; nothing was done
--         1 + the number of clients that received the message that it is free, or 1 if it is still held
return 1 + redis.call(ARGV[3], channel, '0')
