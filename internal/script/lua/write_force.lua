-- Take a write lock from whoever holds it. Readers, and what the writer has read, are left alone.
-- KEYS  1 the lock
--       2 the channel that waiters listen to
--       3 what the names of all readers' keys begin with
-- ARGV  1 PUBLISH or SPUBLISH
-- RETURN  1 freed, 0 not held by a writer
if redis.call('hget', KEYS[1], 'mode') ~= 'write' then return 0 end
for _, field in ipairs(redis.call('hkeys', KEYS[1])) do
  if string.sub(field, -6) == ':write' then redis.call('hdel', KEYS[1], field) end
end
settle(KEYS[1], KEYS[3])
left(ARGV[1], KEYS[2])
return 1
