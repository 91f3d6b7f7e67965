-- Free a lock, if only the given owners hold it.
-- USES  inspect grant fair left
-- KEYS  1 to 5 see lib/fair.lua; or only the lock, if the others are in other slots
--       6 the channel of the waiters for a read/write lock
--       7 prefix of all readers' keys
-- ARGV  1 PUBLISH or SPUBLISH
--       2 the mode: read, write, or '' for a mutex of any kind
--       3.. the fields of the owners that may lose it
-- RETURN  1 freed; 0 not held by them, or also held by others, or too large to check
local key, mode, looks = KEYS[1], ARGV[2], 2000
if redis.call('type', key).ok ~= 'hash' or redis.call('hlen', key) > looks or redis.call('hstrlen', key, 'mode') ~= #mode then return 0 end
if mode ~= '' and redis.call('hget', key, 'mode') ~= mode then return 0 end
local fields = names(key, looks)
if not fields then return 0 end
local seen, held = {}, false
for i = 3, #ARGV do seen[ARGV[i]] = true end
-- A reader is alive if one of its own keys exists.
local own = {}
local function alive(field)
  if mode == '' or string.find(field, ':write$') or not KEYS[7] then return true end
  local lives = false
  for n = 1, math.min(tonumber(redis.call('hget', key, field)) or 0, looks) do
    looks = looks - 1
    local hold = KEYS[7] .. ':' .. field .. ':rwlock_timeout:' .. n
    if redis.call('type', hold).ok == 'string' then
      own[#own + 1] = hold
      lives = true
    end
  end
  return lives
end
for _, field in ipairs(fields) do
  if field ~= (mode == '' and 'leader' or 'mode') and alive(field) then
    if not seen[field] then return 0 end
    held = true
  end
end
if not held or looks == 0 then return 0 end
for _, hold in ipairs(own) do redis.call('del', hold) end
redis.call('del', key)
local function tell()
  if mode == 'write' then
    left(ARGV[1], KEYS[6])
  elseif mode == 'read' then
    redis.call(ARGV[1], KEYS[6], '0')
  else
    redis.call(ARGV[1], KEYS[5], '0')
    local head = first(false)
    if head then call(ARGV[1], head) end
  end
end
if #KEYS > 1 then pcall(tell) end -- the change is made even if the user may not publish
return 1
