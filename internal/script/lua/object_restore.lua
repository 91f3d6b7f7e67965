-- Restore an object from a dump: all its keys or none. Idempotent.
-- USES  once object
-- KEYS  1 the mark of the request series
--       2.. its keys, then as many temporary keys
-- ARGV  1 see lib/object.lua
--       2 number of the request
--       3 how long to keep the mark, in ms
--       4 1: also if it exists
--       5 TTL in ms; 0: for ever
--       6.. for each key the reply of DUMP, '' if it did not exist
-- RETURN  1 done, 0 the object exists, -1 the dumps do not fit the types of the keys
local known = recall(KEYS[1], ARGV[2])
if known then return answered(known) end
if present(2) and ARGV[4] == '0' then return answer(0) end
local failed
for i, t in ipairs(types) do
  local fresh, dump = KEYS[1 + #types + i], ARGV[5 + i]
  if dump ~= '' and not failed then
    local r = redis.pcall('restore', fresh, 0, dump, 'replace')
    if r.err then
      failed = (string.find(r.err, 'DUMP payload') or string.find(r.err, 'Bad data format')) and -1 or r
    elseif redis.call('type', fresh).ok ~= t then
      failed = -1
    end
  end
end
for i = 1, #types do
  local key, fresh = KEYS[1 + i], KEYS[1 + #types + i]
  if failed then
    redis.call('del', fresh)
  elseif ARGV[5 + i] == '' then
    redis.call('del', key)
  else
    redis.call('rename', fresh, key)
    if ARGV[5] ~= '0' then redis.call('pexpire', key, ARGV[5]) end
  end
end
if failed == -1 then return answer(-1) end
return failed or answer(1)
