-- Acquire several locks, or none. The functions that acquire and free each of them precede this script.
-- KEYS  the keys of all calls, one after the other
-- ARGV  for each lock two calls, one that acquires it and one that frees it: the name of the
--       script, the number of its keys, the number of its arguments, and the arguments
-- RETURN  a list: 0, then the token of each lock; or the index of the first lock that was
--         not granted, and the reply of its script
local READS = {
  exists = true, get = true, hexists = true, hget = true, hgetall = true, hkeys = true, hlen = true, hmget = true, hrandfield = true, hscan = true, hstrlen = true,
  llen = true, mget = true, pttl = true, pubsub = true, strlen = true, time = true, ttl = true, type = true,
  zcard = true, zcount = true, zrange = true, zrangebyscore = true, zrevrange = true, zrevrangebyscore = true, zscan = true, zscore = true
}
local list = calls(1)

local function granted(ok, reply) return ok and type(reply) == 'number' and reply > 0 end
local function refusal(i, ok, reply)
  if ok and type(reply) == 'number' then return {i, reply} end
  if type(reply) == 'table' then return reply end -- an error reply
  return redis.error_reply(tostring(reply))
end

-- Check all locks before the first write, so that a group that is not granted uses no token and publishes no message. A check runs
-- the script without its writes. If the script refuses, its writes record that the owner waits, and they are made.
for i = 1, #list, 2 do
  local writes = {}
  local ok, reply = list[i](through(function(name, command, ...)
    if READS[command] then return redis[name](command, ...) end
    writes[#writes + 1] = {command, ...}
    return 1
  end))
  if not granted(ok, reply) then
    if ok and type(reply) == 'number' then
      for _, w in ipairs(writes) do redis.call(unpack(w)) end
    end
    return refusal((i + 1) / 2, ok, reply)
  end
end

-- The user may lack permission for one of the write commands. In this case all locks are freed without a message, since no client
-- has seen them acquired.
local mute = through(function(name, command, ...)
  if command == 'PUBLISH' then return 0 end
  return redis[name](command, ...)
end)
local tokens = {0}
for i = 1, #list, 2 do
  local ok, reply = list[i](redis)
  if not granted(ok, reply) then
    for j = i, 1, -2 do list[j + 1](mute) end
    return refusal((i + 1) / 2, ok, reply)
  end
  tokens[#tokens + 1] = reply
end
return tokens
